"""The service: requests, scheduler, step model and clock joined in a loop; what it leaves."""
