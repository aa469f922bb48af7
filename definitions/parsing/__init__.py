"""From the tree of a document to the structs of the language: shapes, steps, edges."""
