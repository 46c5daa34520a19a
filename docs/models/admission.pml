/* Admission: gangs, execution bytes and preparations of two sessions under one budget. Code: invocations.cpp,
   admission.cpp, eviction.cpp, preparations.cpp and Policy::pump of omp_runtime/session; README.md maps the steps. The
   policy is serial, so one pump is one step; what varies is the order of events, how many come before a pump, whether an
   evicted object's pages go back at once, and which unpinned object is evicted (any: next use is not modelled).

   The scene: session 0 has objects 0 to 2 and segments {0}, {0}, {1, 2}; session 1 has objects 3, 4 and one segment {3, 4}.
   Every object takes one unit of prepared bytes, and one of staging while it loads; an invocation takes one of execution
   bytes (with its outputs). Invocation 0, of session 0, comes at any time; 1 and 2, of session 1, come again and again, or
   (ONCE) each once; OTHER_WAY_ROUND: 0 is of session 1, the others of session 0. With PREPARES session 0 is prepared, too,
   at any time. With STARVED what nobody is pinned to never arrives: its reads are queued behind critical ones for ever.
   With LOWERED the limit of prepared bytes is lowered to that, at any time. */

#ifndef PREPARED
#define PREPARED 99 /* limits */
#endif
#ifndef STAGING
#define STAGING 99
#endif
#ifndef ALL
#define ALL 99
#endif

#define OBJECTS 5
#define ABSENT 0
#define LOADING 1
#define RESIDENT 2
#define LEAVING 3
byte state[OBJECTS], pins[OBJECTS];

#ifndef INVOCATIONS
#define INVOCATIONS 3
#endif
#define SLOTS 3
#ifdef OTHER_WAY_ROUND
#define OF_SESSION_0(i) (i > 0)
#else
#define OF_SESSION_0(i) (i == 0)
#endif
#define SEGMENTS(i) (OF_SESSION_0(i) -> 3 : 1)
#define FIRST(i, s) (OF_SESSION_0(i) -> s / 2 : 3) /* a segment's two objects */
#define SECOND(i, s) (OF_SESSION_0(i) -> s / 2 * 2 : 4)
#ifdef ONCE
#define AGAIN false
#else
#define AGAIN true
#endif
#define AHEAD 2
#define LARGEST_GANG 2 /* objects, of either session */
#define NEW 0
#define PENDING 1
#define LIVE 2
byte phase[INVOCATIONS], created[INVOCATIONS], done[INVOCATIONS];
byte order[INVOCATIONS], waiting; /* those that are pending or live, by age; how many */
byte live;
bool ended[INVOCATIONS]; /* once at least */

/* The preparation of session 0 */
byte preparation; /* NEW, PENDING, LIVE: its bytes are reserved */
bool wanted[3], settled[3], reserved_for[3];
byte reserved;
bool prepared_once;

byte kept = 99; /* a session nothing of which may be evicted */
bool dirty;
#ifdef PREPARES
#define prepares true
#else
#define prepares false
#endif

#ifdef STARVED
#define ARRIVES(o) (pins[o] > 0)
#else
#define ARRIVES(o) true
#endif

/* The budget */
#ifdef LOWERED
byte limit = PREPARED;
#define lowers true
#else
#define limit PREPARED
#define lowers false
#endif
bool lowering, kept_to; /* a lowered limit is waited for; what is live is within it */
byte p, s;
inline count_bytes() {
  p = reserved;
  s = 0;
  for (k : 0 .. OBJECTS - 1) {
    p = p + (state[k] != ABSENT);
    s = s + (state[k] == LOADING)
  }
}
#define FITS(prepared, staging, execution)                                                                             \
  (p + prepared <= limit && s + staging <= STAGING && p + s + live + prepared + staging + execution <= ALL)

inline count_leaving() {
  leaving = 0;
  for (k : 0 .. OBJECTS - 1) { leaving = leaving + (state[k] == LEAVING) }
}

#define MAY_GO(o) (state[o] == RESIDENT && pins[o] == 0 && kept != (o > 2))

/* evict_one into `granted` */
inline evict_one() {
  granted = true;
  if
  :: MAY_GO(0) -> victim = 0
  :: MAY_GO(1) -> victim = 1
  :: MAY_GO(2) -> victim = 2
  :: MAY_GO(3) -> victim = 3
  :: MAY_GO(4) -> victim = 4
  :: else -> granted = false
  fi;
  if
  :: granted ->
    if
    :: state[victim] = LEAVING
    :: state[victim] = ABSENT
    fi;
    victim = 0
  :: else
  fi
}

/* reserve_with_eviction into `granted`; whoever calls it takes the bytes at once */
inline reserve_with_eviction(prepared, staging, execution) {
  do
  :: true ->
    count_bytes();
    count_leaving();
    granted = FITS(prepared, staging, execution);
    if
    :: granted -> break
    :: else ->
      /* eviction_helps, leaving_suffices */
      if
      :: s + staging > STAGING -> break
      :: else
      fi;
      if
      :: leaving > 0 && p + prepared - leaving <= limit &&
        p + s + live + prepared + staging + execution - leaving <= ALL -> break
      :: else
      fi;
      evict_one();
      if
      :: !granted -> break
      :: else
      fi
    fi
  od;
  p = 0;
  s = 0;
  leaving = 0
}

/* ---- Invocations ---- */
inline leave_order(i) {
  for (k : 0 .. INVOCATIONS - 2) {
    if
    :: order[k] == i && k < waiting - 1 -> order[k] = order[k + 1]; order[k + 1] = i
    :: else
    fi
  }
  waiting--;
  order[waiting] = 0
}

/* Of those that are pending, the eldest first */
inline start_invocations() {
  for (a : 0 .. INVOCATIONS - 1) {
    if
    :: a < waiting && phase[order[a]] == PENDING ->
      if
      :: live == SLOTS -> break
      :: else
      fi;
      granted = true;
#ifndef MUTANT_START_WITHOUT_ROOM_FOR_A_GANG
      granted = LARGEST_GANG + LARGEST_GANG + live + 1 <= ALL;
#endif
      if
      :: granted -> reserve_with_eviction(0, 0, 1)
      :: else
      fi;
      if
      :: granted -> phase[order[a]] = LIVE; live++
      :: else -> break
      fi
    :: else
    fi
  }
  a = 0
}

/* Bytes that the preparation holds for an object are drawn from it */
inline admit(o) {
  state[o] = LOADING;
  if
  :: o < 3 ->
    if
    :: reserved_for[o] -> reserved_for[o] = false; reserved--
    :: else
    fi
  :: else
  fi
}

#define HELD(o) (o < 3 -> reserved_for[o % 3] : 0)

/* create_segment into `granted`; `refused` is the invocation whose gang was refused last, one more than that */
inline create_segment(i) {
  x = FIRST(i, created[i]);
  y = SECOND(i, created[i]);
  granted = state[x] != LEAVING && state[y] != LEAVING;
  refused = 0;
  if
  :: granted ->
#ifdef MUTANT_ONE_BY_ONE
    if
    :: state[x] == ABSENT ->
      reserve_with_eviction(1, 1, 0);
      if
      :: granted -> admit(x)
      :: else
      fi
    :: else
    fi;
    if
    :: granted && !first[i] -> pins[x]++; first[i] = true /* kept while the second is refused */
    :: else
    fi;
    if
    :: granted && state[y] == ABSENT ->
      reserve_with_eviction(1, 1, 0);
      if
      :: granted -> admit(y)
      :: else
      fi
    :: else
    fi;
    if
    :: granted -> pins[y]++; created[i]++; first[i] = false
    :: else
    fi
#else
    pins[x]++;
    pins[y]++;
    missing = (state[x] == ABSENT) + (x != y && state[y] == ABSENT);
    if
    :: missing > 0 ->
      held = (state[x] == ABSENT && HELD(x)) + (x != y && state[y] == ABSENT && HELD(y));
      reserve_with_eviction(missing - held, missing, 0);
      held = 0;
      missing = 0
    :: else
    fi;
    if
    :: granted ->
      if
      :: state[x] == ABSENT -> admit(x)
      :: else
      fi;
      if
      :: state[y] == ABSENT -> admit(y)
      :: else
      fi;
      created[i]++
    :: else -> pins[x]--; pins[y]--; refused = i + 1
    fi
#endif
  :: else
  fi;
  x = 0;
  y = 0
}

/* create_segments into `granted`: the eldest first, and nobody overtakes one that is refused */
inline create_segments() {
  granted = true;
  for (a : 0 .. INVOCATIONS - 1) {
    do
    :: granted && a < waiting && phase[order[a]] == LIVE && created[order[a]] < SEGMENTS(order[a]) &&
      created[order[a]] - done[order[a]] < AHEAD -> create_segment(order[a])
    :: else -> break
    od;
#ifdef MUTANT_YOUNGER_OVERTAKES
    granted = true
#endif
  }
  a = 0
}

/* What later segments miss, into room that is free */
inline look_ahead() {
  for (a : 0 .. INVOCATIONS - 1) {
    if
    :: a < waiting && phase[order[a]] == LIVE && created[order[a]] < SEGMENTS(order[a]) ->
      y = SECOND(order[a], created[order[a]]);
      count_bytes();
      if
      :: state[y] == ABSENT && FITS(1 - HELD(y), 1, 0) -> admit(y)
      :: else
      fi;
      p = 0;
      s = 0;
      y = 0
    :: else
    fi
  }
  a = 0
}

/* ---- Speculative loads make way ---- */
#define IN_THE_WAY(o) (state[o] == LOADING && pins[o] == 0 && o != x && o != y)

/* Whether the refused gang would have its bytes if so many loads were given up and all went that may, into `granted` */
inline suffices(loads) {
  granted = p + missing - held - victim - loads <= limit && s + missing - loads <= STAGING &&
            p + s + live + missing + missing - held - victim - loads - loads <= ALL
}

/* As many as it takes, any first; none if all would not be enough. Each ends once its no-ops have run. */
inline make_way() {
#ifndef MUTANT_SPECULATION_STAYS
  if
  :: refused > 0 ->
    x = FIRST((refused - 1), created[refused - 1]);
    y = SECOND((refused - 1), created[refused - 1]);
    missing = (state[x] == ABSENT) + (x != y && state[y] == ABSENT);
    held = (state[x] == ABSENT && HELD(x)) + (x != y && state[y] == ABSENT && HELD(y));
    count_bytes();
    victim = 0; /* evictable_bytes */
    leaving = 0; /* what is in the way, then what of it goes */
    for (k : 0 .. OBJECTS - 1) {
      victim = victim + (state[k] == LEAVING || MAY_GO(k));
      leaving = leaving + IN_THE_WAY(k)
    }
    suffices(leaving);
    leaving = 0;
    do
    :: granted ->
      suffices(leaving);
      if
      :: granted -> break
      :: else
      fi;
      if
      :: IN_THE_WAY(0) -> k = 0
      :: IN_THE_WAY(1) -> k = 1
      :: IN_THE_WAY(2) -> k = 2
      :: IN_THE_WAY(3) -> k = 3
      :: IN_THE_WAY(4) -> k = 4
      fi;
      state[k] = LEAVING;
      leaving++;
      if
      :: k < 3 && wanted[k % 3] && preparation == LIVE -> restart()
      :: else
      fi;
      granted = true
    :: else -> break
    od;
    x = 0; y = 0; missing = 0; held = 0; victim = 0; leaving = 0; p = 0; s = 0; refused = 0
  :: else
  fi;
  granted = false
#else
  refused = 0
#endif
}

/* ---- The preparation ---- */
/* into `granted`: nothing of the policy's own may still give bytes back */
inline nothing_under_way() {
  granted = live == 0;
  for (k : 0 .. OBJECTS - 1) { granted = granted && state[k] != LOADING && state[k] != LEAVING }
}

inline start_preparation() {
  granted = state[0] != LEAVING && state[1] != LEAVING && state[2] != LEAVING;
  if
  :: granted ->
    missing = (state[0] == ABSENT) + (state[1] == ABSENT) + (state[2] == ABSENT);
    kept = 0;
    /* eviction_suffices */
    count_bytes();
    victim = 0;
    for (k : 0 .. OBJECTS - 1) { victim = victim + (state[k] == LEAVING || MAY_GO(k)) }
    granted = p + missing - victim <= limit && p + s + live + missing - victim <= ALL;
    victim = 0;
    p = 0;
    s = 0;
    if
    :: granted -> reserve_with_eviction(missing, 0, 0)
    :: else
    fi;
    kept = 99;
    if
    :: granted ->
      reserved = missing;
      preparation = LIVE;
      for (k : 0 .. 2) {
        reserved_for[k] = state[k] == ABSENT;
        wanted[k] = state[k] != RESIDENT && !settled[k]
      }
    :: else -> nothing_under_way(); assert(!granted)
    fi;
    missing = 0
  :: else
  fi
}

inline advance() {
  for (a : 0 .. 2) {
    if
    :: wanted[a] && state[a] == ABSENT ->
      count_bytes();
      granted = FITS(1 - reserved_for[a], 1, 0);
      p = 0;
      s = 0;
      if
      :: !granted ->
        nothing_under_way();
        if
        :: granted ->
          /* admit_alone */
          kept = 0;
          reserve_with_eviction(1 - reserved_for[a], 1, 0);
          kept = 99;
          if
          :: !granted -> nothing_under_way(); assert(!granted); granted = false
          :: else
          fi
        :: else
        fi
      :: else
      fi;
      if
      :: granted -> admit(a)
      :: else -> break
      fi
    :: else
    fi
  }
  a = 0
}

inline restart() {
  reserved = 0;
  reserved_for[0] = false;
  reserved_for[1] = false;
  reserved_for[2] = false;
  preparation = PENDING
}

inline withdraw_preparation() {
  granted = false;
#ifndef MUTANT_PREPARATION_KEEPS
  if
  :: reserved > 0 -> restart(); granted = true
  :: else
  fi
#endif
}

/* ---- A lowered limit ---- */
inline keep_to_limits() {
#ifndef MUTANT_LIMIT_NOT_KEPT_TO
  do
  :: lowering ->
    count_bytes();
    count_leaving();
    granted = p - leaving > limit;
    if
    :: granted && reserved > 0 -> withdraw_preparation()
    :: granted && reserved == 0 -> evict_one()
    :: else
    fi;
    if
    :: !granted -> break
    :: else
    fi
  :: else -> break
  od;
  p = 0;
  s = 0;
  leaving = 0
#else
  skip
#endif
}

/* finish_releases */
inline finish_lowering() {
  if
  :: lowering ->
    count_bytes();
    if
    :: p <= limit -> lowering = false; kept_to = true
    :: else
    fi;
    p = 0;
    s = 0
  :: else
  fi
}

inline pump() {
  do
  :: true ->
    keep_to_limits();
    start_invocations();
    create_segments();
    if
    :: !granted ->
      withdraw_preparation();
      if
      :: granted -> create_segments()
      :: else
      fi
    :: else
    fi;
    if
    :: granted ->
      if
      :: preparation == PENDING -> start_preparation()
      :: else
      fi;
      if
      :: preparation == LIVE -> advance()
      :: else
      fi;
      look_ahead()
    :: else -> make_way()
    fi;
    if
    :: preparation == LIVE && !wanted[0] && !wanted[1] && !wanted[2] ->
      preparation = NEW;
      prepared_once = true;
      reserved = 0;
      for (k : 0 .. 2) { reserved_for[k] = false; settled[k] = false }
    :: else -> break
    fi
  od;
  finish_lowering();
  granted = false;
  refused = 0;
  k = 0
}

active proctype Policy() {
  byte a, k, x, y, missing, held, victim, leaving, refused;
  bool granted;
#ifdef MUTANT_ONE_BY_ONE
  bool first[INVOCATIONS]; /* the first object of its next segment is pinned */
#endif
end:
  do
  :: atomic { dirty -> dirty = false; pump() }
  od
}

/* The events. Each is a message: a pump follows, sooner or later. */
proctype Load(byte o) {
end:
  do
  :: atomic {
      state[o] == LOADING && ARRIVES(o) ->
      state[o] = RESIDENT;
      if
      :: o < 3 ->
        if
        :: wanted[o % 3] -> wanted[o % 3] = false; settled[o % 3] = true
        :: else
        fi
      :: else
      fi;
      dirty = true
    }
  :: atomic { state[o] == LEAVING -> state[o] = ABSENT; dirty = true }
  od
}

/* Comes, runs its segments, and where it comes again is the youngest then */
proctype Invocation(byte i) {
  byte k;
end:
  do
  :: atomic {
      phase[i] == NEW && (AGAIN && i > 0 || !ended[i]) ->
      phase[i] = PENDING;
      order[waiting] = i;
      waiting++;
      dirty = true
    }
  :: atomic {
      phase[i] == LIVE && done[i] < created[i] && state[FIRST(i, done[i])] == RESIDENT &&
        state[SECOND(i, done[i])] == RESIDENT ->
      assert(pins[FIRST(i, done[i])] > 0 && pins[SECOND(i, done[i])] > 0);
      pins[FIRST(i, done[i])]--;
      pins[SECOND(i, done[i])]--;
      done[i]++;
      if
      :: done[i] == SEGMENTS(i) ->
        phase[i] = NEW;
        created[i] = 0;
        done[i] = 0;
        live--;
        leave_order(i);
        ended[i] = true;
        k = 0
      :: else
      fi;
      dirty = true
    }
  od
}

#ifdef PREPARES
active proctype Prepare() {
end:
  do
  :: atomic { preparation == NEW && !prepared_once -> preparation = PENDING; dirty = true }
  od
}
#endif

#ifdef LOWERED
/* Policy::set_limits: in force at once */
active proctype Lower() {
end:
  do
  :: atomic { limit != LOWERED -> limit = LOWERED; lowering = true; dirty = true }
  od
}
#endif

init {
  atomic {
    byte i;
    for (i : 0 .. OBJECTS - 1) { run Load(i) }
    for (i : 0 .. INVOCATIONS - 1) { run Invocation(i) }
  }
}

/* The eldest gets on, whoever else comes again and again. */
ltl eldest_gets_on { <> ended[0] }
/* Whoever comes once ends, and a lowered limit is kept to. */
ltl all_end {
  <> (ended[0] && ended[1] && ended[INVOCATIONS - 1] && (prepared_once || !prepares) && (kept_to || !lowers))
}
