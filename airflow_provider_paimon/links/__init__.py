"""Links from tasks to what they worked on."""
