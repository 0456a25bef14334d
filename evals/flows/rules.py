"""The rules: for recipients and records, as they could be written before, and with sources.

Both ask about the same parameters of the same tools. They differ in what they let through without asking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from placet.policy.case import Rule
from placet.policy.loader import parse_policies

GUARDED: Mapping[str, Sequence[tuple[str, str]]] = {
    "recipients": [
        ("send_mail", "to"),
        ("forward_mail", "to"),
        ("create_event", "participants"),
        ("invite", "participants"),
        ("share_file", "to"),
        ("add_contact", "email"),
        ("invite_user", "email"),
        ("send_direct", "to"),
        ("post", "channel"),
    ],
    "accounts": [("pay", "iban"), ("change_payment", "iban")],
    "amounts": [("pay", "amount"), ("change_payment", "amount")],
    "records": [
        ("forward_mail", "id"),
        ("delete_mail", "id"),
        ("move_event", "id"),
        ("cancel_event", "id"),
        ("invite", "id"),
        ("delete_file", "id"),
        ("share_file", "id"),
        ("write_file", "name"),
        ("change_payment", "id"),
        ("book_hotel", "name"),
        ("cancel_booking", "id"),
        ("remove_user", "name"),
    ],
    "pages": [("open_page", "url")],
}
"""By group, the parameters that outsiders must not choose without a question."""

IBAN = r"[A-Z]{2}\d{2}(?: [0-9A-Z]{2,4}){3,7}"

SOURCES: Mapping[str, str] = {
    "recipients": """[
        { tool = "find_contact", named_param = "name" },
        { tool = "get_mail", fields = ["from"], named_param = "id" },
        { tool = "search_mail", fields = ["[].from"], named_field = "[].subject" },
        { tool = "read_file", named_param = "name" },
        { tool = "read_channel", fields = ["[].sender"], named_param = "channel" },
        { tool = "list_events", fields = ["[].participants"], named_field = "[].title" },
        { tool = "list_bookings", fields = ["[].contact"], named_field = "[].what" },
    ]""",
    "accounts": f"""[
        {{ tool = "list_payees", fields = ["[].iban"], named_field = "[].name" }},
        {{ tool = "get_mail", named_param = "id", only_match = '{IBAN}' }},
        {{ tool = "read_file", named_param = "name", only_match = '{IBAN}' }},
        {{ tool = "open_page", named_param = "url", only_match = '{IBAN}' }},
        {{ tool = "list_payments", fields = ["[].iban"], named_field = "[].subject" }},
    ]""",
    "amounts": """[
        { tool = "get_mail", named_param = "id" },
        { tool = "read_file", named_param = "name" },
        { tool = "open_page", named_param = "url" },
        { tool = "list_payments", fields = ["[].amount"], named_field = "[].subject" },
    ]""",
    "records": """[
        { tool = "list_mail", fields = ["[].id"], named_field = "[].subject" },
        { tool = "search_mail", fields = ["[].id"], named_field = "[].subject" },
        { tool = "list_events", fields = ["[].id"], named_field = "[].title" },
        { tool = "list_files", fields = ["[].id"], named_field = "[].name" },
        { tool = "list_payments", fields = ["[].id"], named_field = "[].subject" },
        { tool = "list_bookings", fields = ["[].id"], named_field = "[].what" },
    ]""",
    "pages": """[
        { tool = "read_file", named_param = "name" },
        { tool = "read_channel", fields = ["[].text"], named_param = "channel", named_field = "[].sender" },
    ]""",
}
"""By group, where a value may come from."""


@cache
def rules(*, with_sources: bool) -> list[tuple[str, Rule]]:
    """The rules, read as a file would be."""
    text = ""
    for group, guarded in GUARDED.items():
        for tool, param in guarded:
            text += (
                f'[[rule]]\nname = "{group}: {tool}.{param}"\nkind = "flow_rule"\nmark = "untrusted"\n'
                f'tool = "{tool}"\nparam = "{param}"\nunless_approved = true\n'
            )
            if with_sources:
                # A TOML table stands on one line.
                lines = " ".join(SOURCES[group].split())
                text += f"unless_from = {lines}\n"
    return parse_policies([(Path("rules.toml"), text.encode())])
