def peak(signal):
    loudest = signal.abs().max()
    return loudest.item()
