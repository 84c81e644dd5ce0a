"""What must hold in a bundle, one file a table: each yields findings, and says nothing when all is well."""
