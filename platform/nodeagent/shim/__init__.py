"""What a shim is made of. It outlives agents and is up within milliseconds: these import nearly nothing."""
