"""Filters of units by kind and metadata: `calories<100`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.store.connection import Connection, as_json

_CONDITION = re.compile(r"\s*([^=!<>]+?)\s*(!=|<=|>=|=|<|>)\s*([^=!<>\s].*?)\s*", re.DOTALL)
_IS_NUMBER = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)?(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)
_MOST_CONDITIONS = 100
_IS_AMOUNT = re.compile(r"([-+]?\d[\d.,]*)\s*[^\W\d].*", re.DOTALL)
_VALUES = (
    "json_each(u.metadata) m, json_each(CASE WHEN m.type = 'array' THEN m.value "
    "WHEN m.type IN ('true', 'false') THEN json_array(m.type) ELSE json_array(m.value) END) v "
    "WHERE m.key = ? COLLATE NOCASE"
)
"""The values of a field of the metadata; a list has several."""
_NUMBER = (
    "iif(v.type IN ('integer', 'real') OR v.value GLOB '[0-9]*' OR v.value GLOB '-[0-9]*', "
    "CAST(iif(v.value GLOB '*[0-9],[0-9][0-9][0-9]*', replace(v.value, ',', ''), v.value) "
    "AS REAL), NULL)"
)
"""A value as a number; NULL for a text that does not begin with one."""
_OPERATORS = {"=": "IS", "!=": "IS NOT"}


@dataclass(frozen=True, slots=True)
class UnitFilter:
    """A condition on units, as SQL.

    Args:
        sql: The condition on the row `u` of the table of units.
        values: Its parameters.
    """

    sql: str = "TRUE"
    values: tuple[str | float, ...] = ()

    @classmethod
    def parse(cls, kind: str | None = None, where: str | Sequence[str] = ()) -> UnitFilter:
        """Make a filter that all of the conditions must pass.

        Args:
            kind: Kind of the units; None for any.
            where: Conditions on the metadata, "FIELD OPERATOR VALUE", with one of the operators
                = != < <= > >=. Case is ignored. If VALUE is a number, the field is compared as a
                number, a text such as "49 euros" by the number at its beginning. A list passes if
                one of its items does; != requires that all of them differ.

        Raises:
            BadInput: A condition has another form.
        """
        parts, values = ["TRUE"], list[str | float]()
        if arguments.optional_text(kind, "kind") is not None:
            parts.append("u.kind = ?")
            values.append(str(kind))
        listed = arguments.texts((where,) if isinstance(where, str) else where, "where")
        if len(listed) > _MOST_CONDITIONS:
            raise BadInput(f"{len(listed)} conditions: at most {_MOST_CONDITIONS} are accepted")
        for condition in listed:
            found = _CONDITION.fullmatch(condition)
            if found is None:
                raise BadInput(
                    f"{condition!r} is no condition: expected FIELD OPERATOR VALUE, such as "
                    '"calories<100"; the operators are = != < <= > >='
                )
            field, operator, text = found.groups()
            number = text[-1].isdigit() and _IS_NUMBER.fullmatch(text)
            amount = operator[0] in "<>" and _IS_AMOUNT.fullmatch(text)
            if amount and not number:
                raise BadInput(
                    f"{condition!r} compares with an amount; units are not converted: compare with "
                    f'the number alone, "{field}{operator}{amount[1]}"'
                )
            compared = f"{_NUMBER if number else 'v.value'} {_OPERATORS.get(operator, operator)} ?"
            of_all = "min" if operator == "!=" else "max"
            parts.append(f"(SELECT {of_all}({compared} COLLATE NOCASE) FROM {_VALUES})")
            values += [float(text.replace(",", "")) if number else text, field]
        return cls(" AND ".join(parts), tuple(values))

    def rows(self, connection: Connection) -> list[int] | None:
        """Return the rows of the units that pass, in the order of their ids; None for all."""
        if not self.values:
            return None
        found = connection.execute(
            f"SELECT u.row FROM units u WHERE {self.sql} ORDER BY u.id", self.values
        )
        return [row for (row,) in found]

    def chunks(self, connection: Connection) -> NDArray[np.int64] | None:
        """Return the rows of the own chunks of the units that pass; None for all."""
        if (units := self.rows(connection)) is None:
            return None
        found = connection.execute(
            "SELECT chunk FROM json_each(?) w CROSS JOIN unit_chunks l ON l.unit = w.value "
            "WHERE l.owned",
            (as_json(units),),
        )
        return np.array([row for (row,) in found], np.int64)
