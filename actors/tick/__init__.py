"""The pure tick: state and commands in, events and effects out."""
