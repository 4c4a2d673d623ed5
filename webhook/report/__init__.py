"""Report → what people and machines read: one module a format, each a function of the report."""
