"""What is known of recorded runs beside: waits, events, decisions."""
