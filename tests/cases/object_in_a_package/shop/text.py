def clean(title):
    words = title.strip().lower().split()
    print("title of", len(words), "words")
    return float(len(words))
