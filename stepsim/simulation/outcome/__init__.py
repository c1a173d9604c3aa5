"""What is read off the state that a run left: totals, tables, why it did not end well."""
