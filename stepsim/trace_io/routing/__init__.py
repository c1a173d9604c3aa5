"""Expert routing: which experts each token was sent to."""
