"""How much quality a lossy rule costs: texts of several rules, compared in pairs by a scorer."""
