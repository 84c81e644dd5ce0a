"""What must hold in a trace, one file a table: each yields findings, and says nothing when all is well."""
