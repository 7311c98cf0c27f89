"""What to compact: levels, sorted runs, sections and the choice among them. Values in, values out."""
