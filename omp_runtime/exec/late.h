// Values whose shapes only the run can tell, because of what If and Loop chose: bound one by one as the run gets there.
#pragma once

#include "frame_state.h"

namespace ompipe::exec {

// What bind does for a late value: it has a type, and no place yet.
void place_late(FrameState& state, model::ValueId value);
bool is_late(const FrameState& state, model::ValueId value);
// Which values nobody needs after which action; once, from the plan.
void find_freed(FrameState& state);

// Memory for all of state.late.needs, or for none; then state.late.wanted says what is missing.
bool take_late(FrameState& state);
// The value's next shape, in a piece taken before.
void give_piece(FrameState& state, model::ValueId value, std::span<const int64_t> shape, LatePiece piece);
void drop_piece(FrameState& state, model::ValueId value);

// Infers, measures and runs a node as bind does others. Without memory for it, it does nothing yet.
Status run_late(FrameState& state, ActionId at, const ObjectTable& objects, TileRunner& runner);
// Gives back what nobody needs after an action that has run.
void drop_dead(FrameState& state, ActionId at);
// After the last action: moves late outputs to the memory that is asked for one by one. False: some is wanted.
bool move_outputs(FrameState& state);
// Forgets everything of a run.
void end_late(FrameState& state);

}  // namespace ompipe::exec
