"""The addresses: each takes a body, hands it on, and sends what comes back."""

from fastapi import APIRouter

from app.web.routes import chat, conversations, health, runs, tools

router = APIRouter()
for part in (chat, runs, conversations, tools, health):
    router.include_router(part.router)

__all__ = ["router"]
