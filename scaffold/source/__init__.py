"""Reading a project and writing edits back: files in, byte-exact text out."""
