"""What can go wrong with a machine over a night, and how it shows: room, throttling, faults, hangs.

Nothing here knows of tasks or candidates; the loop and the gate ask and decide.
"""
