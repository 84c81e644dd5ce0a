"""What a step costs: its ops and prices settled once a placement, priced in a few vector operations a step."""
