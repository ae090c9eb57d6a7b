"""The tools there are, and running calls for a caller who drives the loop."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import Request, Response

from app.chat import ChatOptions, ChatRequest, Prompt, Tool
from app.web import openapi, routing
from app.web.dependencies import CurrentGateway, Principal, ToolCalls
from app.web.documents import ToolCallsDocument, ToolsDocument
from app.web.encoding import json_response
from app.web.history import open_calls, wire_results
from app.web.presence import while_connected
from app.web.requests import tools_named
from app.web.schemas import ToolCallsBody

router = routing.router("tools")

_CALL = {"id": "call_1", "name": "calculate", "arguments": '{"expression": "2 + 3"}'}
_ASKED = [{"role": "user", "content": "What is 2 + 3?"}, {"role": "assistant", "tool_calls": [_CALL]}]


@router.get("/tools", responses=openapi.answers(ToolsDocument))
async def tools(gateway: CurrentGateway) -> Response:
    """List the tools that requests can name, in the order they were found."""
    return json_response({"tools": [_described(tool) for tool in gateway.client.tools]})


@router.post(
    "/tool-calls",
    responses=openapi.answers(ToolCallsDocument, *openapi.BODY_ERRORS, 503),
    openapi_extra=openapi.takes(ToolCallsBody, one_call={"messages": _ASKED}),
)
async def tool_calls(request: Request, body: ToolCalls, gateway: CurrentGateway, principal: Principal) -> Response:
    """Run the calls that the last message asks for, and give back the history with their results.

    Calls fail one by one, as results; the limits of a turn are counted over the history. A caller who goes away ends
    the tools. It works also where the operator has switched the gateway's own tool calling off.
    """
    history, message = open_calls(body.messages)
    options = ChatOptions(tools=tools_named(body.tools, gateway.client), tool_context=body.tool_context)
    given = gateway.client.completed(ChatRequest(Prompt(history, options))).options
    running = partial(
        gateway.manager.call,
        message,
        tools=given.tools or (),
        history=history,
        tool_context=given.tool_context,
        principal=principal,
    )
    execution = await while_connected(request, gateway.runs.attend(running))
    sent = [form.model_dump(exclude_unset=True) for form in body.messages]
    return json_response(
        {"messages": [*sent, *wire_results(execution.message)], "return_direct": execution.return_direct}
    )


def _described(tool: Tool) -> dict[str, Any]:
    definition, metadata = tool.definition, tool.metadata
    return {
        "name": definition.name,
        "description": definition.description,
        "input_schema": definition.input_schema,
        "default": metadata.default,
        "return_direct": metadata.return_direct,
        "sequential": metadata.sequential,
        "idempotent": metadata.idempotent,
        "timeout": metadata.timeout,
        "max_calls": metadata.max_calls,
    }
