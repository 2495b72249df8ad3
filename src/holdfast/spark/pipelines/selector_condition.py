"""A Holdfast selector as a condition of Spark SQL, for events that lie in a table or have several readers in one query.

    amount > 100 AND region = 'eu'
    (try_cast(properties['amount'] as double) > 100 AND properties['region'] = 'eu')

Where a server can evaluate a selector it does; here there is none. The columns are those of the source. Their properties are
texts, so a name is read as what it is compared with: a number beside a number, true or false where a condition is asked for.
Numbers are floating ones of 64 bits. Division is refused: whether 7 / 2 is 3 or 3.5 depends on what the producer sent, which
the text does not tell; `where`, in Spark SQL, can say what is meant.
"""

from __future__ import annotations

from holdfast.errors import BadSelector
from holdfast.event.selector.attributes import Kind
from holdfast.event.selector.kinds import kind_of
from holdfast.event.selector.parser import parse
from holdfast.event.selector.tree import (
    Arithmetic,
    Both,
    Comparison,
    Either,
    Like,
    Literal,
    Membership,
    Name,
    Node,
    Not,
    NullTest,
)

# Attributes by their names in a selector, and their columns in a frame; times are milliseconds since 1970 in a selector.
ATTRIBUTES = {
    "id": "id",
    "source": "source",
    "type": "type",
    "time": "unix_millis(time)",
    "subject": "subject",
    "datacontenttype": "datacontenttype",
    "dataschema": "dataschema",
    "priority": "priority",
    "group": "event_group",
    "correlation_id": "correlation_id",
    "reply_to": "reply_to",
    "expires_at": "unix_millis(expires_at)",
    "JMSMessageID": "id",
    "JMSTimestamp": "unix_millis(time)",
    "JMSCorrelationID": "correlation_id",
    "JMSType": "type",
    "JMSPriority": "priority",
    "JMSXGroupID": "event_group",
    "JMSDeliveryMode": "'PERSISTENT'",
}
_LIKE_ESCAPE = "!"


def spark_sql(selector: str) -> str:
    """The condition of Spark SQL that holds where the selector does; BadSelector for a text that is none."""
    return _condition(parse(selector))


def text_literal(text: str) -> str:
    """A text as Spark SQL writes it: backslashes mean something there."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _condition(node: Node) -> str:
    match node:
        case Both(conditions=conditions):
            return "(" + " AND ".join(map(_condition, conditions)) + ")"
        case Either(conditions=conditions):
            return "(" + " OR ".join(map(_condition, conditions)) + ")"
        case Not(condition=condition):
            return f"(NOT {_condition(condition)})"
        case Comparison(operator=operator, left=left, right=right):
            return _comparison(operator, left, right)
        case Membership(name=name, members=members):
            kind = Kind.TEXT if isinstance(members[0], str) else Kind.NUMBER
            return f"({_value(name, kind)} IN ({', '.join(map(_literal, members))}))"
        case Like(name=name, pattern=pattern, escape=escape):
            return f"({_value(name, Kind.TEXT)} LIKE {text_literal(_pattern(pattern, escape))} ESCAPE '{_LIKE_ESCAPE}')"
        case NullTest(name=name):
            return f"({_value(name, Kind.ANY)} IS NULL)"
    return _value(node, Kind.TRUTH)


def _comparison(operator: str, left: Node, right: Node) -> str:
    """Both sides as what one of them is seen to be; two properties are numbers if they are ordered, and texts if they are not."""
    kinds = {kind_of(left), kind_of(right)} - {Kind.ANY}
    kind = kinds.pop() if kinds else Kind.TEXT if operator in ("=", "<>") else Kind.NUMBER
    return f"({_value(left, kind)} {operator} {_value(right, kind)})"


def _value(node: Node, kind: Kind) -> str:
    match node:
        case Literal(value=value):
            return _literal(value)
        case Arithmetic(first=first, steps=steps):
            return _arithmetic(first, steps)
        case Name(name=name) if name in ATTRIBUTES:
            return ATTRIBUTES[name]
        case Name(name=name):
            return _property(name, kind)
    raise AssertionError(f"a condition stands where a value is: {node}")


def _property(name: str, kind: Kind) -> str:
    found = f"properties[{text_literal(name)}]"
    if kind is Kind.NUMBER:
        return f"try_cast({found} AS DOUBLE)"
    if kind is Kind.TRUTH:
        return f"(CASE lower({found}) WHEN 'true' THEN true WHEN 'false' THEN false END)"
    return found


def _arithmetic(first: Node, steps: tuple[tuple[str, Node], ...]) -> str:
    text = f"CAST({_value(first, Kind.NUMBER)} AS DOUBLE)"
    for operator, operand in steps:
        if operator == "/":
            raise BadSelector("a selector over a table cannot divide: write the condition in Spark SQL, as `where`")
        text = f"({text} {operator} {_value(operand, Kind.NUMBER)})"
    return text


def _literal(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return text_literal(value)
    return f"CAST('{value}' AS DOUBLE)" if isinstance(value, float) else f"{value}D"


def _pattern(pattern: str, escape: str | None) -> str:
    """The same pattern with our own escape character, since Spark's differs."""
    letters, written = iter(pattern), []
    for letter in letters:
        if letter == escape:
            written.append(_LIKE_ESCAPE + next(letters))
        elif letter == _LIKE_ESCAPE:
            written.append(_LIKE_ESCAPE * 2)
        else:
            written.append(letter)
    return "".join(written)
