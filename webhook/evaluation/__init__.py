"""Objects, policies and facts in; findings, repairs and decisions out. Pure."""
