# mypy: ignore-errors
# ruff: noqa: N803, PLR0915, PLR0917
"""Decode and verify attention in Triton: packed query heads, KV split over programs, partial results combined.

One program owns one (sequence, KV head, row block, split). Its rows are the packed GEMM-M of the model: row r is
query token r // GROUP of query head r % GROUP, so that KV is read once for all G*q rows of a tile. The same kernel
prices MLA: one KV head, ROPE_DIM more key columns behind the latent, and values that are the keys. With HALVES = 2
queries, keys, values and accumulators are held in two parts by column, so that a wide accumulator is rescaled half by
half: from tensor memory it then never fills the registers.

Import this module only inside functions: it needs triton. (Kernel bodies are Triton's language, not Python's: the type
checker looks away.)
"""

from __future__ import annotations

import triton  # noqa: TID253
import triton.language as tl  # noqa: TID253

LOWEST = tl.constexpr(-1e30)    # peak of a row that has seen no key: finite, so that exp2(-inf - LOWEST) is 0, not NaN


@triton.jit
def _columns(row, FIRST: tl.constexpr, WIDTH: tl.constexpr, DIM: tl.constexpr):
    """Columns FIRST to FIRST + WIDTH of the rows that `row` points at; zeros past DIM."""
    column = FIRST + tl.arange(0, WIDTH)
    if FIRST + WIDTH <= DIM:
        return tl.load(row + column[None, :])
    return tl.load(row + column[None, :], mask=(column < DIM)[None, :], other=0.0)


@triton.jit
def _walk(
    acc, acc_high, total, peak, q, q_high, q_rope, keys, values, table, limit, first, last, length, scale_log2,
    key_token_stride, value_token_stride, key_page_stride, value_page_stride,
    HEAD_DIM: tl.constexpr, HEAD_BLOCK: tl.constexpr, VALUE_DIM: tl.constexpr, VALUE_BLOCK: tl.constexpr,
    ROPE_DIM: tl.constexpr, KEYS_ARE_VALUES: tl.constexpr, PAGE: tl.constexpr, BLOCK_N: tl.constexpr,
    HALVES: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Online softmax over KV blocks first..last; MASKED where a block reaches the verify window or the end."""
    head_part: tl.constexpr = HEAD_BLOCK // HALVES
    value_part: tl.constexpr = VALUE_BLOCK // HALVES
    rope_column = tl.arange(0, ROPE_DIM if ROPE_DIM > 0 else 16)
    for block in range(first, last):
        token = block * BLOCK_N + tl.arange(0, BLOCK_N)
        place = token
        if MASKED:      # past the end the last key is read again: its weight is 0, and loads need no mask
            place = tl.minimum(token, length - 1)
        if PAGE == 0:
            key_row = keys + place[:, None].to(tl.int64) * key_token_stride
            value_row = values + place[:, None].to(tl.int64) * value_token_stride
        else:
            if PAGE % BLOCK_N == 0:     # the block lies in one page
                page = tl.load(table + block * BLOCK_N // PAGE).to(tl.int64)
                slot = (place - block * BLOCK_N // PAGE * PAGE)[:, None]
            else:
                page = tl.load(table + place // PAGE).to(tl.int64)[:, None]
                slot = (place % PAGE)[:, None]
            key_row = keys + page * key_page_stride + slot * key_token_stride
            value_row = values + page * value_page_stride + slot * value_token_stride
        k = _columns(key_row, 0, head_part, HEAD_DIM).to(q.dtype)
        score = tl.dot(q, tl.trans(k), input_precision="ieee")
        if HALVES == 2:
            k_high = _columns(key_row, head_part, head_part, HEAD_DIM).to(q.dtype)
            score = tl.dot(q_high, tl.trans(k_high), acc=score, input_precision="ieee")
        if ROPE_DIM > 0:
            k_rope = tl.load(key_row + HEAD_DIM + rope_column[None, :])
            score = tl.dot(q_rope, tl.trans(k_rope.to(q.dtype)), acc=score, input_precision="ieee")
        score *= scale_log2
        if MASKED:
            score = tl.where(token[None, :] < limit[:, None], score, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(score, 1))
        weight = tl.exp2(score - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        total = total * shrink + tl.sum(weight, 1)
        weight = weight.to(q.dtype)
        v = k if KEYS_ARE_VALUES else _columns(value_row, 0, value_part, VALUE_DIM).to(q.dtype)
        acc = tl.dot(weight, v, acc=acc * shrink[:, None], input_precision="ieee")
        if HALVES == 2:
            v = k_high if KEYS_ARE_VALUES else _columns(value_row, value_part, value_part, VALUE_DIM).to(q.dtype)
            acc_high = tl.dot(weight, v, acc=acc_high * shrink[:, None], input_precision="ieee")
        peak = new_peak
    return acc, acc_high, total, peak


@triton.jit
def attend(
    query, keys, values, table, lengths, out, partial, peaks, totals,
    scale_log2, query_len, kv_heads, splits,
    q_batch_stride, q_token_stride, q_head_stride,
    key_page_stride, key_token_stride, key_head_stride,
    value_page_stride, value_token_stride, value_head_stride,
    table_stride, o_batch_stride, o_token_stride, o_head_stride,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_BLOCK: tl.constexpr, VALUE_DIM: tl.constexpr,
    VALUE_BLOCK: tl.constexpr, ROPE_DIM: tl.constexpr, KEYS_ARE_VALUES: tl.constexpr, PAGE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HALVES: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Grid (row blocks, splits, batch * kv_heads). PAGE = 0: `keys` is [batch, tokens, kv_heads, ...] and the page
    stride is the batch stride; else `keys` is [pages, PAGE, kv_heads, ...] and `table` is [batch, pages of a sequence].
    """
    row_block = tl.program_id(0)
    split = tl.program_id(1)
    batch = (tl.program_id(2) // kv_heads).to(tl.int64)
    kv_head = (tl.program_id(2) % kv_heads).to(tl.int64)
    length = tl.load(lengths + batch)

    row = row_block * BLOCK_M + tl.arange(0, BLOCK_M)
    row_token = row // GROUP
    row_head = kv_head * GROUP + row % GROUP
    valid = row < query_len * GROUP
    head_part: tl.constexpr = HEAD_BLOCK // HALVES
    value_part: tl.constexpr = VALUE_BLOCK // HALVES
    column = tl.arange(0, head_part)
    q_row = query + batch * q_batch_stride + row_token[:, None] * q_token_stride + row_head[:, None] * q_head_stride
    q = tl.load(q_row + column[None, :], mask=valid[:, None] & (column < HEAD_DIM)[None, :], other=0.0)
    q_high = q
    if HALVES == 2:
        column += head_part
        q_high = tl.load(q_row + column[None, :], mask=valid[:, None] & (column < HEAD_DIM)[None, :], other=0.0)
    q_rope = q
    if ROPE_DIM > 0:
        q_rope = tl.load(q_row + HEAD_DIM + tl.arange(0, ROPE_DIM)[None, :], mask=valid[:, None], other=0.0)

    keys += kv_head * key_head_stride
    values += kv_head * value_head_stride
    if PAGE == 0:
        keys += batch * key_page_stride
        values += batch * value_page_stride
    table += batch * table_stride

    limit = length - query_len + 1 + row_token      # keys that the row's token may see
    blocks = tl.cdiv(length, BLOCK_N)
    each = tl.cdiv(blocks, splits)
    first = split * each
    last = tl.minimum(first + each, blocks)         # may lie before `first`: an empty split
    whole = tl.minimum((length - query_len + 1) // BLOCK_N, last)    # blocks that every row sees entirely

    acc = tl.zeros([BLOCK_M, value_part], dtype=tl.float32)
    acc_high = tl.zeros([BLOCK_M, value_part], dtype=tl.float32) if HALVES == 2 else 0.0
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    peak = tl.full([BLOCK_M], LOWEST, dtype=tl.float32)
    acc, acc_high, total, peak = _walk(
        acc, acc_high, total, peak, q, q_high, q_rope, keys, values, table, limit, first, whole, length, scale_log2,
        key_token_stride, value_token_stride, key_page_stride, value_page_stride,
        HEAD_DIM, HEAD_BLOCK, VALUE_DIM, VALUE_BLOCK, ROPE_DIM, KEYS_ARE_VALUES, PAGE, BLOCK_N, HALVES, MASKED=False,
    )  # fmt: skip
    acc, acc_high, total, peak = _walk(
        acc, acc_high, total, peak, q, q_high, q_rope, keys, values, table, limit, tl.maximum(first, whole), last,
        length, scale_log2,
        key_token_stride, value_token_stride, key_page_stride, value_page_stride,
        HEAD_DIM, HEAD_BLOCK, VALUE_DIM, VALUE_BLOCK, ROPE_DIM, KEYS_ARE_VALUES, PAGE, BLOCK_N, HALVES, MASKED=True,
    )  # fmt: skip

    # rows again, behind a load that hides that they are the same: kept from above, their places would spill
    row_block += tl.load(lengths + batch, volatile=True) - length
    row = row_block * BLOCK_M + tl.arange(0, BLOCK_M)
    valid = row < query_len * GROUP
    value_column = tl.arange(0, value_part)
    if SPLIT:
        rows = query_len * GROUP
        place = (tl.program_id(2).to(tl.int64) * splits + split) * rows + row
        tl.store(peaks + place, peak, mask=valid)
        tl.store(totals + place, total, mask=valid)
        target = partial + place[:, None] * VALUE_DIM
    else:
        row_head = kv_head * GROUP + row % GROUP
        target = out + batch * o_batch_stride + (row // GROUP)[:, None] * o_token_stride
        target += row_head[:, None] * o_head_stride
        acc /= total[:, None]
        if HALVES == 2:
            acc_high /= total[:, None]
    kept = valid[:, None] & (value_column < VALUE_DIM)[None, :]
    tl.store(target + value_column[None, :], acc.to(target.dtype.element_ty), mask=kept)
    if HALVES == 2:
        value_column += value_part
        kept = valid[:, None] & (value_column < VALUE_DIM)[None, :]
        tl.store(target + value_column[None, :], acc_high.to(target.dtype.element_ty), mask=kept)


@triton.jit
def combine(
    partial, peaks, totals, out, query_len, kv_heads, splits, o_batch_stride, o_token_stride, o_head_stride,
    GROUP: tl.constexpr, VALUE_DIM: tl.constexpr, VALUE_BLOCK: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Merge the splits of ROWS rows, CHUNK splits at a time. Grid (row blocks, batch * kv_heads).

    An empty split has peak LOWEST and weight 0.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    rows = query_len * GROUP
    valid = row < rows
    base = tl.program_id(1).to(tl.int64) * splits * rows + row[:, None]
    column = tl.arange(0, VALUE_BLOCK)
    top = tl.full([ROWS], LOWEST, dtype=tl.float32)
    for start in range(0, splits, CHUNK):
        split = start + tl.arange(0, CHUNK)[None, :]
        peak = tl.load(peaks + base + split * rows, mask=valid[:, None] & (split < splits), other=LOWEST)
        top = tl.maximum(top, tl.max(peak, 1))
    acc = tl.zeros([ROWS, VALUE_BLOCK], dtype=tl.float32)
    total = tl.zeros([ROWS], dtype=tl.float32)
    for start in range(0, splits, CHUNK):
        split = start + tl.arange(0, CHUNK)[None, :]
        there = valid[:, None] & (split < splits)
        place = base + split * rows
        weight = tl.exp2(tl.load(peaks + place, mask=there, other=LOWEST) - top[:, None])
        total += tl.sum(weight * tl.load(totals + place, mask=there, other=0.0), 1)
        kept = there[:, :, None] & (column < VALUE_DIM)[None, None, :]
        part = tl.load(partial + place[:, :, None] * VALUE_DIM + column[None, None, :], mask=kept, other=0.0)
        acc += tl.sum(weight[:, :, None] * part, 1)
    batch = (tl.program_id(1) // kv_heads).to(tl.int64)
    head = (tl.program_id(1) % kv_heads) * GROUP + row % GROUP
    o_row = out + batch * o_batch_stride + (row // GROUP) * o_token_stride + head * o_head_stride
    kept = valid[:, None] & (column < VALUE_DIM)[None, :]
    found = acc / tl.where(valid, total, 1.0)[:, None]
    tl.store(o_row[:, None] + column[None, :], found.to(out.dtype.element_ty), mask=kept)
