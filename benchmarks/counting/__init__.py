"""How many functions a request and a streamed token call: the same number every time, however busy the machine is."""
