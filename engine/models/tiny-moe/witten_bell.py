# The yardstick: an order-3 byte model with Witten-Bell interpolation. Start at bits_per_byte().
#   p_n(b | h) = (count(h b) + distinct(h) * p_{n-1}(b | shorter h)) / (count(h) + distinct(h)),  p_{-1} = 1/256
# distinct(h) is the number of different bytes seen after h; an unseen h hands over to the shorter context whole.
import numpy


def _codes(data, length):
    """Every window of `length` bytes as one integer, most recent byte lowest."""
    count = len(data) - length + 1
    codes = numpy.zeros(count, numpy.uint32)
    for offset in range(length):
        codes = (codes << numpy.uint32(8)) | data[offset:offset + count]
    return codes


def _lookup(keys, values, wanted):
    at = numpy.minimum(numpy.searchsorted(keys, wanted), len(keys) - 1)
    return numpy.where(keys[at] == wanted, values[at], 0)


def bits_per_byte(train, text, scored, order=3):
    """Mean code length of text[scored] under the model counted on `train`, in bits per byte.

    train, text: bytes; scored: positions in `text`, each at least `order`.
    """
    train = numpy.frombuffer(train, numpy.uint8).astype(numpy.uint32)
    text = numpy.frombuffer(text, numpy.uint8).astype(numpy.uint32)
    scored = numpy.asarray(scored)
    probability = numpy.full(len(scored), 1 / 256)
    for length in range(order + 1):
        grams, gram_counts = numpy.unique(_codes(train, length + 1), return_counts=True)
        contexts, first = numpy.unique(grams >> numpy.uint32(8), return_index=True)
        context_counts = numpy.add.reduceat(gram_counts, first)
        distinct = numpy.diff(numpy.append(first, len(grams)))
        wanted = _codes(text, length + 1)[scored - length]
        context = wanted >> numpy.uint32(8)
        seen = _lookup(grams, gram_counts, wanted)
        total = _lookup(contexts, context_counts, context)
        kinds = _lookup(contexts, distinct, context)
        interpolated = (seen + kinds * probability) / numpy.maximum(total + kinds, 1)
        probability = numpy.where(total > 0, interpolated, probability)
    return float(-numpy.log2(probability).mean())
