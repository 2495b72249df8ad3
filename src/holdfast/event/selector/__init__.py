"""Selectors: a recipient says which events it wants, in the words of SQL (requirement B5; the model is JMS 2.0, section 3.8.1).

    amount > 100 AND region = 'eu'
    type LIKE 'order.%' AND NOT (status IN ('draft', 'void'))
    price * quantity BETWEEN 1000 AND 5000 OR is_urgent
    subject IS NOT NULL AND time >= 1767225600000

A name is an attribute of the event (`attributes` lists them) or else one of its properties, and NULL if the event has
neither. A property may be a number, a text, or true or false.

    literals       'it''s'  7  -7  0xFF  035 (base 8)  6.25  1e3  TRUE  FALSE
    conditions     = <> < <= > >=   [NOT] BETWEEN a AND b   [NOT] IN ('a', 'b')   [NOT] LIKE 'a%' [ESCAPE '!']   IS [NOT] NULL
                   a name alone, for a property that is true or false: `is_urgent` means `is_urgent = TRUE`
    joined by      NOT, AND, OR, in this order of strength, and ( )
    arithmetic     * and / before + and -, signs

Keywords may be written in any case; names (letters of any language) and texts are case-sensitive. An event matches when the
condition is TRUE. With a NULL in it a comparison is neither TRUE nor FALSE but unknown, and stays so under NOT: an event
without `amount` matches neither `amount > 100` nor `NOT (amount > 100)`. How unlike values compare and what arithmetic does at
its limits is in `values`.

Beyond the specification, `IN` takes numbers too. A text has at most 4,096 characters, 512 words, 32 different
names and 100 levels. A wrong one is refused with a BadSelector that shows the place.

    text ─ parser ─▶ tree ─ compiler ─▶ one Python function, asked once per event

This package reads no clock and does no I/O: a selector gives the same answer on every replica. Its time is in proportion to what
it reads; large events, and many of them, are read in steps, between which others have their turn.
"""
