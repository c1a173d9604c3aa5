"""Many runs of one program."""
