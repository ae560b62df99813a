"""The HTML page of an analysis: escaping, text, tables, pictures, and what makes them look and move."""
