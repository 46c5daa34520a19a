/* Readiness: how hot runs rely on resident bytes without a lock, and how the policy waits for what they hold. Code:
   hot_gate.h, hot_slots.*, hot_runs.*, hot.cpp, eviction.cpp of omp_runtime/session; README.md maps the steps. Every
   access to a shared variable of the code is one step here.

   The scene: a session with everything resident and two kept frames. One caller runs unpublished; one publishes, and then
   cancels, waits, or lets the team run it; a thread of the team claims what is published. At any moment an elder needs
   the bytes of the session's object, or of both frames, or (GLOBAL) of any two of the three. A run that can't be hot is the policy's, which loads the
   object again and publishes it, or runs it cold. In the end the session is closed. */

#define SLOTS 2
#define CALLERS 2

#define EMPTY 0
#define IDLE 1
#define TAKEN 2
#define CLAIMABLE 3
#define RUNNING 4

/* HotGate: the epoch's parity, and the pins */
bool open = true;
byte pins;
/* HotShared */
byte slot[SLOTS];
bool waiting;
/* Of a slot's holder */
byte owner[SLOTS]; /* whose handle is in it */
bool memory[SLOTS];
bool resident = true;

bool mailed[CALLERS], pending[CALLERS], completed[CALLERS]; /* on its way to the policy; there */
bool left[SLOTS];                                           /* Invocation::left_slot */
bool submitted;                                             /* the caller has its handle, and may close the session */
bool cancelled, cancel_mailed, cancel_served;               /* of caller 1; cancelled: Completion::cancelled */
byte need;
#define OBJECT 0 /* a limit of prepared bytes */
#define FRAMES 1 /* a limit of execution bytes */
#define ANY 2    /* the global one */
bool gang_waits, gang_done, close_mailed, closing, closed;
bool message; /* something is in the queue of the serial context */

inline released() {
  if
  :: waiting ->
    atomic {
      if
      :: waiting -> waiting = false; message = true
      :: else
      fi
    }
  :: else
  fi
}

/* HotRuns::execute into `ran`: claim, the segments, leave */
inline execute() {
#ifdef MUTANT_EPOCH_READ_BEFORE_PIN
  ran = open;
  pins++;
#else
  pins++;
  ran = open;
#endif
  if
  :: ran ->
    assert(resident); /* the first segment */
#ifdef MUTANT_WAITING_READ_BEFORE_UNPIN
    released();
#endif
    assert(resident) /* the last one */
  :: else
  fi;
  pins--
}

inline take_idle() {
  if
  :: open ->
    atomic {
      if
      :: slot[0] == IDLE -> slot[0] = TAKEN; index = 0
      :: slot[1] == IDLE -> slot[1] = TAKEN; index = 1
      :: else -> index = SLOTS
      fi
    }
  :: else -> index = SLOTS
  fi
}

inline submit(caller) {
  mailed[caller] = true;
  message = true
}

/* The queue of the serial context is emptied: Policy::cancel and Policy::submit for what is in it. A cancel that comes
   behind its run finds it pending, and ends it as well. */
inline take_cancel() {
  if
  :: cancel_mailed ->
    cancel_mailed = false;
    cancel_served = true;
    if
    :: slot[0] == CLAIMABLE && owner[0] == 1 -> slot[0] = IDLE; owner[0] = 0; completed[1] = true
    :: slot[1] == CLAIMABLE && owner[1] == 1 -> slot[1] = IDLE; owner[1] = 0; completed[1] = true
    :: pending[1] -> pending[1] = false; completed[1] = true
    :: else
    fi
  :: else
  fi
}
inline take_mail(caller) {
  if
  :: mailed[caller] ->
    mailed[caller] = false;
#ifdef MUTANT_CANCEL_LOST_ON_THE_WAY
    pending[caller] = true
#else
    if
    :: caller == 1 && cancelled -> completed[caller] = true
    :: else -> pending[caller] = true
    fi
#endif
  :: else
  fi
}
inline leave_slot(index) {
  if
  :: left[index] -> left[index] = false; slot[index] = EMPTY
  :: else
  fi
}

inline hand_over() {
  memory[index] = false;
#ifdef MUTANT_SLOT_LEFT_AT_ONCE
  d_step { submit(owner[index]); owner[index] = 0 }
  slot[index] = EMPTY;
  released()
#else
  d_step { submit(owner[index]); owner[index] = 0; left[index] = true }
#endif
}

/* HotRuns::ran_claimable */
inline ran_claimable() {
  if
  :: ran ->
    d_step { caller = owner[index]; owner[index] = 0 }
    slot[index] = IDLE;
    completed[caller] = true;
    caller = 0;
#ifndef MUTANT_WAITING_READ_BEFORE_UNPIN
    released()
#endif
  :: else ->
    hand_over()
  fi;
  atomic { index = SLOTS; ran = false }
}

/* HotRuns::run_now; what can't run is submitted */
active proctype RunNow() {
  byte index;
  bool ran;
  take_idle();
  if
  :: index < SLOTS ->
    if
    :: execute()
    :: true /* no place is free */
    fi;
    slot[index] = IDLE;
#ifndef MUTANT_WAITING_READ_BEFORE_UNPIN
    released()
#endif
  :: else
  fi;
  if
  :: ran -> atomic { completed[0] = true; ran = false; index = 0 }
  :: else -> atomic { submit(0); index = 0 }
  fi
}

/* HotRuns::submit, then the handle is cancelled, waited for, or let be */
active proctype Publish() {
  byte index, caller;
  bool ran;
  take_idle();
  if
  :: index < SLOTS ->
    owner[index] = 1;
    slot[index] = CLAIMABLE;
    if
    :: true -> /* run_here */
      atomic {
        if
        :: slot[index] == CLAIMABLE && owner[index] == 1 -> slot[index] = RUNNING; ran = true
        :: else
        fi
      }
      if
      :: ran -> execute(); ran_claimable()
      :: else
      fi
    :: true -> /* cancel */
      cancelled = true;
      atomic {
        if
        :: slot[index] == CLAIMABLE && owner[index] == 1 -> slot[index] = TAKEN; ran = true
        :: else
        fi
      }
      if
      :: ran ->
        owner[index] = 0;
        ran = false;
        slot[index] = IDLE;
        completed[1] = true;
#ifndef MUTANT_CANCEL_IS_SILENT
        released()
#endif
      :: else -> d_step { cancel_mailed = true; message = true }
      fi
    :: true
    fi
  :: else -> atomic { submit(1) }
  fi;
  atomic { submitted = true; index = 0 }
}

active proctype Team() {
  byte index = SLOTS, caller;
  bool ran;
end:
  do
  :: atomic {
      if
      :: slot[0] == CLAIMABLE -> slot[0] = RUNNING; index = 0
      :: slot[1] == CLAIMABLE -> slot[1] = RUNNING; index = 1
      fi
    }
    execute();
    ran_claimable()
  od
}

active proctype Elder() {
#ifdef GLOBAL
  need = ANY;
#else
  if
  :: need = OBJECT
  :: need = FRAMES
  fi;
#endif
  d_step { gang_waits = true; message = true }
  gang_done && completed[0] && submitted;
  d_step { close_mailed = true; message = true }
}

/* Policy::trim_idle, for either slot */
inline trim(index) {
  atomic {
    if
    :: slot[index] == IDLE -> slot[index] = TAKEN; taken = true
    :: else
    fi
  }
  if
  :: taken -> memory[index] = false; taken = false; slot[index] = EMPTY
  :: else
  fi
}

/* Policy::close_gate into `taken` */
inline close_gate() {
#ifdef MUTANT_PINS_READ_BEFORE_EPOCH
  taken = pins == 0;
  open = false;
#else
  open = false;
  taken = pins == 0;
#endif
  if
  :: !taken -> blocked = true
  :: else
  fi
}

inline arm() {
  if
  :: resident && !held -> open = true
  :: else
  fi
}

#define fits                                                                                                           \
  (need == OBJECT && !resident || need == FRAMES && !memory[0] && !memory[1] ||                                       \
   need == ANY && resident + memory[0] + memory[1] <= 1)

/* Policy::reserve_with_eviction for the elder, and evict_one with one session */
inline serve_gang() {
  if
  :: need != OBJECT && !fits -> trim(0)
  :: else
  fi;
  if
  :: need != OBJECT && !fits -> trim(1)
  :: else
  fi;
  if
  :: need != FRAMES && !fits && resident ->
    close_gate();
    if
    :: !taken ->
      arm();
      held = true;
      close_gate()
    :: else
    fi;
    if
    :: taken -> atomic { taken = false; resident = false }
    :: else
    fi
  :: else
  fi;
  if
  :: fits -> gang_waits = false; gang_done = true
  :: else ->
    if
    :: slot[0] != EMPTY || slot[1] != EMPTY -> blocked = true /* filled() */
    :: else
    fi
  fi
}

/* Policy::start of what can't run by itself: published where the gate is open, else run cold */
inline start(caller) {
  assert(caller != 1 || !cancel_served);
  pending[caller] = false;
  taken = false;
  if
  :: open ->
    atomic {
      if
      :: slot[0] == EMPTY -> slot[0] = TAKEN; index = 0
      :: slot[1] == EMPTY -> slot[1] = TAKEN; index = 1
      :: else -> index = SLOTS
      fi
    }
    if
    :: index == SLOTS ->
      atomic {
        if
        :: slot[0] == IDLE -> slot[0] = TAKEN; index = 0
        :: slot[1] == IDLE -> slot[1] = TAKEN; index = 1
        :: else
        fi
      }
    :: else
    fi
  :: else -> index = SLOTS
  fi;
  if
  :: index < SLOTS ->
    d_step { memory[index] = true; owner[index] = caller }
    slot[index] = CLAIMABLE
  :: else ->
    resident = true; /* loaded, and every segment has run */
    arm();
    completed[caller] = true
  fi;
  index = 0
}

active proctype Policy() {
  bool held, blocked, taken;
  byte index;
  atomic {
    slot[0] = IDLE;
    slot[1] = IDLE;
    memory[0] = true;
    memory[1] = true
  }
  do
  :: closed -> break
  :: message ->
    d_step { message = false; take_cancel(); take_mail(0); take_mail(1); leave_slot(0); leave_slot(1); closing = close_mailed }
pump:
    held = false;
    if
    :: gang_waits -> serve_gang()
    :: else ->
      if
      :: pending[0] -> start(0)
      :: pending[1] -> start(1)
      :: else
      fi
    fi;
    /* look_again */
    if
    :: blocked ->
      blocked = false;
#ifdef MUTANT_NO_SECOND_LOOK
      waiting = true
#else
      atomic { taken = waiting; waiting = true }
      if
      :: !taken -> goto pump
      :: else -> taken = false
      fi
#endif
    :: else
    fi;
    if
    :: !gang_waits && (pending[0] || pending[1]) -> goto pump /* start_invocations goes on */
    :: else
    fi;
    /* close_idle_sessions, hot_busy */
    if
    :: closing ->
      if
      :: slot[0] > IDLE || slot[1] > IDLE ->
        waiting = true;
        if
        :: slot[0] > IDLE || slot[1] > IDLE
        :: else -> closed = true
        fi
      :: else -> closed = true
      fi
    :: else -> arm()
    fi
  od;
  open = false;
  assert(pins == 0);
  assert(!mailed[0] && !mailed[1] && !pending[0] && !pending[1]);
  trim(0);
  trim(1);
  assert(slot[0] == EMPTY && slot[1] == EMPTY && !memory[0] && !memory[1])
}
