"""Shape operators: dims and levels change, elements do not (STeP paper, table 7)."""
