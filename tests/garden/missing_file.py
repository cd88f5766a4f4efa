# cause: missing_file
print(open("data/train.csv").read())
