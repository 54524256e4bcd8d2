"""What goes wrong in a run: drawn from its seed as data, and carried out on a simulated cluster."""
