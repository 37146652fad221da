"""Empty: metering calls no other service. The room is here so that all four services have the same plan."""
