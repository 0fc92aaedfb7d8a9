"""Support vector machines in the span of a chosen basis, certified against the full kernel."""
