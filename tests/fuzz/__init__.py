"""Fuzzers: "only a StepSimError leaves the public interface", tried with seeded random input.

A fuzzer is a module of this folder with a function ``one(rng)`` that makes and runs one case from a
:class:`random.Random`. It returns "accepted" or "refused", and raises for a failure: any exception
that is no StepSimError, or a broken law of a result. What it did goes to
:func:`tests.fuzz.driver.note`, line by line, before it is done. ``python -m tests.fuzz`` runs them.
"""
