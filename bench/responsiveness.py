def run(directory, quick, stalls): pass
