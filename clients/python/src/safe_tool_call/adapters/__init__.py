"""Adapters for agent frameworks. Each module needs the framework of its name: install the extra."""
