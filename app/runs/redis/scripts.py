"""What Redis has to do in one go because it depends on what is there."""

from __future__ import annotations

APPEND = """
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if (newest and newest[1] or '0-0') ~= ARGV[1] then
    return 0
end
redis.call('XADD', KEYS[1], ARGV[2], 'e', ARGV[3])
if ARGV[4] ~= '' then
    redis.call('XTRIM', KEYS[1], 'MINID', '=', ARGV[4])
end
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 1
"""
"""Append an item to a stream whose newest one has the id that is given, and trim it. Returns whether it was done."""

END = """
if redis.call('HEXISTS', KEYS[1], 'created') == 0 then
    return -1
end
if redis.call('HEXISTS', KEYS[1], 'ended') == 1 then
    return 0
end
redis.call('HSET', KEYS[1], 'ended', ARGV[1], 'outcome', ARGV[2], 'first', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4] + ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('DEL', KEYS[3])
redis.call('ZADD', KEYS[4], ARGV[6], ARGV[7])
if KEYS[5] then
    redis.call('PEXPIRE', KEYS[5], ARGV[4])
end
return 1
"""
"""Write down the end of a run: its record, events, readers, index and key. 0 = it has one, -1 = there is no record."""

RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
"""
"""Delete a key that has the value that is given."""
