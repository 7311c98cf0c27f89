"""File indexes: what shows, for one data file, which of its rows can match a filter on a column.

1. `container` packs the indexes of a file: column → index type → bytes.
2. `values` gives a column in the form in which all index types store it: integers, or bytes.
3. `bloom`, `bitmap`, `bsi` and `range_bitmap` turn such values into bytes, and bytes into answers.
4. `kinds` names the index types, and says which column types each takes.
5. `lookup` finds with the indexes of a file which rows can match a predicate.

Source: the package `fileindex` of the Java library.
"""
