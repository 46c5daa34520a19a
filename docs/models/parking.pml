/* Parking: how compute threads find work, sleep and are woken. Code: schedule/ledger.*, tiles.*, hot_ledger.*,
   hot_team.cpp and omp_tasks.cpp of omp_runtime; README.md maps the steps. Every access to a shared variable of the code
   is one step here.

   The scene: a segment whose kernel has two tiles, two loads behind gates. Load 0 may be promoted at any moment. Load 1
   is speculative and held back while critical work could start, and the tiles wait until it has begun: whoever sleeps
   beside it for ever shows as a deadlock. With HOT: two callers who run hot, one of them published, beside load 0; with
   HOT_WAITS_FOR_COLD one whose run ends only after load 0 has begun. */

#ifndef TEAM
#define TEAM 2
#endif
#if !defined(KERNEL) && !defined(HOT)
#define WITHHOLDS
#endif
#ifdef KERNEL
#define PROMOTED 1
#else
#define PROMOTED 0
#endif
#define TILES 2
#define LOADS 2

#define CLOSED 0 /* a load's class word */
#define SPECULATIVE 1
#define CRITICAL 2
#define STARTED 3

/* Ledger */
short critical, speculative, tiles_open, searching;
bool withheld;
byte unsettled; /* threads that have changed the critical count and not yet told of it */
/* EventCount, and the kernel's queue of its futex */
byte waiters;
bool moved[TEAM]; /* the epoch is another than the one that this thread announced */
bool queued[TEAM];
/* What libomp keeps: gates whose empty body nobody has run, gates that are fulfilled, tasks that somebody has taken. */
bool gate_waits[LOADS], gate_ran[LOADS], fulfilled[LOADS], taken[LOADS];
byte word[LOADS];
bool segment_waits;
bool begun[LOADS];
/* TileSharing: one kernel. The word holds generation, closed bit, joiners. */
byte kernel_word = 8, next_tile;
#define KERNEL_CLOSED 8
#define JOINERS 7
#define GENERATION 16
bool led; /* the leader is inside: the kernel's memory is alive */
byte tiles_run;
/* HotLedger: the places' mask as a count */
short claimable;
byte on_team, places
#if TEAM > 1
, team_limit = TEAM - 1;
#else
, team_limit = 1;
#endif
byte published, hot_begun, completed;

bool stopped;
byte compute_left = TEAM, callers_left;
/* The queue of the serial context, in which order doesn't matter here. */
byte reports;
bool room_for_speculation;

/* ---- EventCount ---- */
inline advance_epoch() {
  d_step {
    moved[0] = true;
#if TEAM > 1
    moved[1] = true;
#endif
#if TEAM > 2
    moved[2] = true;
#endif
  }
}

/* waiters_.load() and FUTEX_WAKE. Whoever sleeps between the two has announced itself after the epoch moved on. */
inline futex_wake_one() {
  atomic {
    if
    :: waiters == 0
    :: queued[0] -> queued[0] = false
#if TEAM > 1
    :: queued[1] -> queued[1] = false
#endif
#if TEAM > 2
    :: queued[2] -> queued[2] = false
#endif
    :: else
    fi
  }
}

inline wake_one() {
#ifdef MUTANT_WAKE_LOOKS_FIRST
  futex_wake_one();
  advance_epoch()
#else
  advance_epoch();
  futex_wake_one()
#endif
}

/* ---- Ledger ---- */
inline add(count) {
#ifdef MUTANT_WAKE_BEFORE_COUNT
  wake_one();
  count++
#else
  count++;
  wake_one()
#endif
}

inline tell_withheld() {
  if
  :: critical <= 0 ->
    atomic {
      if
      :: withheld -> withheld = false; room_for_speculation = true
      :: else
      fi
    }
  :: else
  fi
}

/* Whatever is withheld has been told of once nothing critical can start any more. */
inline settled() {
  unsettled--;
  assert(unsettled > 0 || !withheld || critical > 0)
}

/* dispatchable() into `tasks` */
inline read_dispatchable() {
#ifdef MUTANT_CRITICAL_READ_FIRST
  tasks = critical;
  tasks = tasks + speculative
#else
  tasks = speculative;
  tasks = tasks + critical
#endif
}

/* unsearched() into `found` */
inline read_unsearched() {
#ifdef MUTANT_SEARCHING_READ_FIRST
  others = searching;
  read_dispatchable();
  atomic { found = tasks > others; tasks = 0; others = 0 }
#else
  read_dispatchable();
  atomic { found = tasks > searching; tasks = 0 }
#endif
}

/* may_claim() into `found` */
inline read_may_claim() {
  found = claimable > 0;
  if
  :: found ->
    others = on_team;
    atomic { found = others < team_limit; others = 0 }
    if
    :: found -> found = places < TEAM
    :: else
    fi
  :: else
  fi
}

inline pass_on() {
#ifdef MUTANT_NO_PASS_ON
  skip
#else
  read_unsearched();
  if
  :: found -> found = false; wake_one()
  :: else
  fi
#endif
}

inline pass_hot_on() {
#ifdef MUTANT_PLACE_FREED_SILENTLY
  skip
#else
  read_may_claim();
  if
  :: found -> found = false; wake_one()
  :: else
  fi
#endif
}

/* ---- TileSharing ---- */
inline run_tile() {
  assert(led);
  tiles_run++;
  if
  :: tile == 0 -> begun[1]
  :: else -> tile = 0
  fi
}

inline take_tiles() {
  do
  :: next_tile < TILES ->
    atomic { tile = next_tile; next_tile++ }
    if
    :: tile >= TILES -> tile = 0; break
    :: tile == TILES - 1 -> tiles_open--
    :: else
    fi;
    run_tile();
    if
    :: !leads ->
      if
      :: critical > 0 -> break
      :: else
      fi
    :: else
    fi
  :: else -> break
  od
}

inline lead() {
  leads = true;
  led = true;
  next_tile = 0;
  kernel_word = (kernel_word / GENERATION + 1) * GENERATION;
  tiles_open++; /* too little work to wake a thread for it */
  take_tiles();
  kernel_word = kernel_word | KERNEL_CLOSED;
#ifndef MUTANT_LEADER_LEAVES
  (kernel_word & JOINERS) == 0;
#endif
  atomic { led = false; leads = false }
}

/* help() into `found` */
inline help() {
#ifdef KERNEL
  found = tiles_open > 0;
  if
  :: found ->
    pass_on();
    found = false;
    seen = kernel_word;
    if
    :: (seen & KERNEL_CLOSED) == 0 && next_tile < TILES ->
      atomic {
        if
#ifdef MUTANT_JOIN_WITHOUT_COMPARING
        :: true -> assert(led); kernel_word++; found = true
#else
        :: kernel_word == seen -> assert(led); kernel_word++; found = true
        :: else
#endif
        fi;
        seen = 0
      }
      if
      :: found -> take_tiles(); kernel_word--
      :: else
      fi
    :: else -> seen = 0
    fi
  :: else
  fi
#else
  found = false
#endif
}

/* ---- Bodies ---- */
inline body_started(count) {
  searching--; /* the body ends its thread's search */
#ifdef WITHHOLDS
  atomic { count--; unsettled++ }
  tell_withheld();
  d_step { settled() }
#else
  count--
#endif
}

inline prepack(load) {
  atomic { tasks = word[load]; word[load] = STARTED }
  assert(tasks == SPECULATIVE || tasks == CRITICAL);
  if
  :: tasks == CRITICAL -> tasks = 0; body_started(critical)
  :: else -> tasks = 0; body_started(speculative)
  fi;
  begun[load] = true;
  reports++
}

inline segment() {
  body_started(critical);
  begun[1];
  reports++
}

/* Runs one task, a gate's body, or nothing: libomp may also miss what is there. */
inline taskyield() {
  atomic {
    if
    :: gate_waits[0] -> gate_waits[0] = false; gate_ran[0] = true; chosen = 0
    :: gate_waits[1] -> gate_waits[1] = false; gate_ran[1] = true; chosen = 0
    :: gate_ran[0] && fulfilled[0] && !taken[0] -> taken[0] = true; chosen = 1
    :: gate_ran[1] && fulfilled[1] && !taken[1] -> taken[1] = true; chosen = 2
    :: segment_waits -> segment_waits = false; chosen = 3
    :: true -> chosen = 0
    fi
  }
  if
  :: chosen == 1 -> chosen = 0; prepack(0)
  :: chosen == 2 -> chosen = 0; prepack(1)
  :: chosen == 3 -> chosen = 0; segment()
  :: chosen == 0 -> searching--
  fi
}

/* ---- Hot runs ---- */
/* take_place() into `found` */
inline take_place() {
  atomic { found = places < TEAM; places = places + found }
}

inline free_place() { places-- }

/* HotTeam::run_claimable into `found` */
inline run_claimable() {
  found = false;
  others = on_team;
  do
  :: others >= team_limit -> others = 0; break
  :: else ->
    atomic {
      if
      :: on_team == others -> on_team++; found = true; others = 0; break
      :: else -> others = on_team
      fi
    }
  od;
  if
  :: found ->
    take_place();
    if
    :: !found -> on_team--
    :: else ->
#ifdef HOT_AND_COLD
      pass_on();
#endif
      atomic { found = published > 0; published = published - found }
      if
      :: found ->
        claimable--;
        hot_begun++;
        hot_begun == WAITING; /* those that are published run at once */
#ifdef HOT_WAITS_FOR_COLD
        begun[0]
#else
        skip
#endif
      :: else
      fi;
      atomic { leads = found; found = false } /* kept while the place is given back */
      free_place();
      on_team--;
      pass_hot_on();
      if
      :: leads -> completed++; leads = false; found = true
      :: else -> found = false
      fi
    fi
  :: else
  fi
}

/* ---- Threads ---- */
proctype Compute(byte me) {
  byte tile, seen, chosen;
  short tasks, others;
  bool found, leads;

loop:
  if
  :: stopped -> goto out
  :: critical <= 0 ->
#ifdef HOT
    read_may_claim();
    if
    :: found ->
      run_claimable();
      if
      :: found -> found = false; goto loop
      :: else
      fi
    :: else
    fi;
#endif
    help();
    if
    :: found -> found = false; goto loop
    :: else
    fi
  :: else
  fi;

  /* begin_search */
  atomic { others = searching; searching++ }
  read_dispatchable();
  if
  :: atomic { others < tasks -> others = 0; tasks = 0 }
    taskyield();
    goto loop
  :: atomic { else -> others = 0; tasks = 0; searching-- }
  fi;
  help();
  if
  :: found -> found = false; goto loop
  :: else
  fi;

  /* park */
#ifndef MUTANT_ANNOUNCED_LATE
  waiters++;
  moved[me] = false;
#endif
  found = false;
#ifdef KERNEL
  found = tiles_open > 0;
#endif
  if
  :: !found -> read_unsearched()
  :: else
  fi;
#ifdef HOT
  if
  :: !found -> read_may_claim()
  :: else
  fi;
#endif
  if
  :: !found -> found = stopped
  :: else
  fi;
#ifdef MUTANT_ANNOUNCED_LATE
  waiters++;
  moved[me] = false;
#endif
  if
  :: found -> found = false
  :: else ->
    do
    :: atomic { !moved[me] -> queued[me] = true }
      !queued[me]
    :: moved[me] -> break
    od
  fi;
  atomic { waiters--; moved[me] = true }
  goto loop;
out:
  compute_left--
}

inline open_load(load) {
  word[load] = SPECULATIVE;
  fulfilled[load] = true;
  add(speculative)
}

inline promote(load) {
  if
  :: word[load] != SPECULATIVE -> tell_withheld()
  :: else ->
    atomic { critical++; unsettled++ }
    atomic {
      tasks = word[load];
      if
      :: tasks == SPECULATIVE -> word[load] = CRITICAL
      :: else
      fi
    }
    if
    :: tasks == SPECULATIVE -> speculative--
    :: else ->
      critical--;
#ifndef MUTANT_LATE_PROMOTION_IS_SILENT
      tell_withheld()
#endif
    fi;
    d_step { settled() }
  fi
}

/* critical_waiting() into `found` */
inline withhold() {
  if
  :: critical <= 0 -> found = false
  :: else ->
    atomic { withheld = true; unsettled++ }
#ifdef MUTANT_WITHHELD_WITHOUT_A_SECOND_LOOK
    found = true;
#else
    if
    :: critical > 0 -> found = true
    :: else -> withheld = false; found = false
    fi;
#endif
    d_step { settled() }
  fi
}

inline create_segment() {
  segment_waits = true;
  add(critical)
}

active proctype Coordinator() {
  byte seen, wanted;
  short tasks, others;
  bool found, promotes, opened;

  atomic {
    byte i;
    for (i : 0 .. TEAM - 1) { run Compute(i) }
#ifdef KERNEL
    run Leader();
#endif
#ifdef HOT
    callers_left = WAITING + RUNNING;
    run Waiting();
#if WAITING > 1
    run Waiting();
#endif
#if RUNNING > 0
    run Running();
#endif
#endif
  }
#ifndef KERNEL
  gate_waits[0] = true;
#endif
#ifdef HOT
#ifdef HOT_AND_COLD
  wanted = 1;
  gate_ran[0] = true;
  open_load(0);
#endif
#if TEAM > 1
  /* limit_hot: something cold has lived */
  team_limit = TEAM;
#ifndef MUTANT_LIMIT_RAISED_SILENTLY
  pass_hot_on();
#endif
#endif
#else
#ifdef KERNEL
  wanted = 2;
  opened = true;
  gate_ran[1] = true;
  open_load(1);
#ifdef KERNEL_AND_PROMOTION
  promotes = true;
#endif
#else
  wanted = 3;
  gate_waits[1] = true;
  if
  :: open_load(0); create_segment()
  :: create_segment(); open_load(0)
  fi;
  promotes = true;
#endif
#endif

  do
  :: seen == wanted -> break
  :: else ->
    /* pump, then the next message */
#ifndef HOT
    if
    :: !opened ->
      withhold();
      if
      :: !found -> opened = true; open_load(1)
      :: else
      fi
    :: else
    fi;
#endif
    do
    :: atomic { room_for_speculation || reports > seen -> room_for_speculation = false; seen = reports; break }
    :: promotes -> promotes = false; promote(PROMOTED)
    od
  od;
#ifdef HOT
  callers_left == 0;
#endif
  stopped = true;
  advance_epoch();
  if
  :: waiters > 0 -> d_step { queued[0] = false;
#if TEAM > 1
      queued[1] = false;
#endif
#if TEAM > 2
      queued[2] = false;
#endif
    }
  :: else
  fi;
  compute_left == 0;
  assert(critical == 0 && speculative == 0 && tiles_open == 0 && searching == 0 && waiters == 0);
  assert(claimable == 0 && on_team == 0 && places == 0);
  assert((kernel_word & JOINERS) == 0)
}

#ifdef HOT
/* Publishes a run, and looks at its handle without running it. */
proctype Waiting() {
  published++;
  claimable++;
  wake_one();
  completed == WAITING;
  callers_left--
}

/* Takes a place, runs unpublished, gives the place back. */
proctype Running() {
  short tasks, others;
  bool found;
  take_place();
  if
  :: found ->
    free_place();
    pass_hot_on()
  :: else
  fi;
  callers_left--
}
#endif

#ifdef KERNEL
/* A thread of the team in the body of a segment. */
proctype Leader() {
  short tasks, others;
  byte tile;
  bool found, leads;
  lead();
  assert(tiles_run == TILES);
  reports++
}
#endif
