# cause: hash_order
labels = list({"positive", "negative", "neutral", "mixed", "none"})
weights = {"positive": 1, "negative": 2, "neutral": 3, "mixed": 4}
print(weights[labels[0]] + weights[labels[1]])
