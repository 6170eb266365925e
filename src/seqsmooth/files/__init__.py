"""Files: atomic writing, locks, checks of paths, text and JSON with errors that say what is wrong."""
