"""What-if: changes of a machine or a program, predicted, and measured by reruns."""
