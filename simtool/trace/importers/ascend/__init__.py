"""What torch_npu and msprof write: a timeline in JSON, tables in CSV, or a database."""
