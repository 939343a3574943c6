"""What plays random histories by the thousand: servers, processes, state, report."""
