"""The command line: parse, call, print. Nothing else lives here."""
