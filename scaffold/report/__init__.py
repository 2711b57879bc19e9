"""What people read: tables, Markdown, JSON and the rules' pages. Nothing here decides anything."""
