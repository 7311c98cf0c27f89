"""How rows of equal key become one row: columnar, Arrow in, Arrow out, no IO."""
