/*
 * The lending protocol between one lender and one borrower, for spin.
 *
 * The same rules as test/exhaustive/rules.ts, written again in another language and checked by another tool.
 * The lender owns the whole pool; the borrower has what it holds of it. One global tick ages everything; that
 * the borrower's clock may be late is that its loan lapses anywhere within SLACK more ticks. Records are lost by
 * never being delivered, or by giving up their place in flight to a later one, in each direction by itself.
 *
 * Checked: what both may use together never passes the pool, no share is negative, and the borrower holds no more
 * than a lender that knows its loans counts as lent.
 *
 * Seeded bugs, one at a time: -DBUG_DATED_AT_RECEIPT -DBUG_NO_MARGIN -DBUG_NO_WAIT -DBUG_UNADDRESSED
 * -DBUG_UNSCOPED -DBUG_REVIVE -DBUG_DELTA -DBUG_RESTART_FORGETS -DBUG_UNANSWERED -DBUG_UNHEEDING. -DTIGHT asks for one unit less than the pool.
 * -DLTL states the same as a property of linear time instead of assertions.
 */
#ifndef POOL
#define POOL 1
#endif
#ifndef FLIGHT
#define FLIGHT 1     /* records in flight in each direction */
#endif
#ifndef CRASHES
#define CRASHES 1    /* restarts and losses of memory, of either side, in one history */
#endif
#define TTL 2
#define SLACK 1
#define WAIT 3
#define LIFE (TTL + SLACK)

#ifdef BUG_NO_MARGIN
#define RECLAIM_AFTER TTL
#else
#define RECLAIM_AFTER WAIT
#endif

/* Bounds that spin needs because nothing here is made canonical: terms of one lender, units lent in one term. */
#define TERMS 4
#define LENT 3
#define NONE 255

/* What a record of the lender says to the borrower. `ack`: age of the acknowledged send. */
typedef Loan { byte inc; byte term; byte to; byte lent; byte ack };
/* What a record of the borrower says to the lender. `sent`: its age, by the borrower's clock. */
typedef Back { byte inc; byte sent; byte linc; byte term; byte gave; bool dead };

Loan loan[FLIGHT]; byte loans = 0;
Back back[FLIGHT]; byte backs = 0;

/* The lender. heardInc 0: nothing heard. Ages stop at the point where no rule tells them apart. */
byte inc = 1, term = 0, to = 0, lent = 0, returned = 0, ackedAge = NONE;
byte heardInc = 0, heardSent = NONE, heardAge = NONE;
byte recovering = 0;
/* The borrower has said that it uses nothing of an earlier life of the lender. */
bool answered = false;

/* The borrower. `left`: ticks until its lease is over even by the latest clock. */
byte binc = 1, linc = 0, bterm = 0, blent = 0, gave = 0, left = NONE;
bool dead = false;
#ifdef BUG_UNHEEDING
byte heardLinc = 0;
#define ANSWER (heardLinc > linc -> heardLinc : linc)
#else
#define ANSWER linc
#endif

byte crashes = 0;
byte i, k;
#ifdef LTL
bool holds = true;
#endif

#define OUT (lent > returned -> lent - returned : 0)
#define HELD ((!dead && left != NONE && blent > gave) -> blent - gave : 0)
#define OWN (recovering > 0 -> 0 : POOL - OUT)
#ifdef TIGHT
#define ALLOWED (POOL - 1)
#else
#define ALLOWED POOL
#endif
#define SUM_HOLDS (OUT <= POOL && OWN + HELD <= ALLOWED)
#define PAIR_HOLDS (recovering > 0 || HELD <= OUT)
#define OLDER(age, most) if :: age != NONE && age < most -> age++ :: else fi
#define EXPIRING(age) if :: age == NONE :: age != NONE && age + 1 >= LIFE -> age = NONE :: else -> age++ fi

inline begin_term() { term++; to = 0; lent = 0; returned = 0; ackedAge = NONE }

inline tick() {
  OLDER(heardAge, WAIT); OLDER(ackedAge, WAIT); EXPIRING(heardSent);
  for (i : 0 .. FLIGHT - 1) {
    if :: i < loans -> EXPIRING(loan[i].ack) :: else fi;
    if :: i < backs -> EXPIRING(back[i].sent) :: else fi
  }
  if :: recovering > 0 -> recovering-- :: else fi;
  if
  :: left != NONE && left > 0 -> left--;
     if :: left == 0 -> dead = true; left = NONE :: else fi
  :: else
  fi
}

/* The record in place k of `loan` is taken out, and with it, when it was delivered, all older ones. */
inline drop_loans(from, count) {
  for (i : 0 .. FLIGHT - 1) {
    if
    :: i >= from && i + (count) < loans ->
       loan[i].inc = loan[i + (count)].inc; loan[i].term = loan[i + (count)].term;
       loan[i].to = loan[i + (count)].to; loan[i].lent = loan[i + (count)].lent;
       loan[i].ack = loan[i + (count)].ack
    :: else
    fi
  }
  loans = loans - (count);
  for (i : 0 .. FLIGHT - 1) {
    if
    :: i >= loans ->
       loan[i].inc = 0; loan[i].term = 0; loan[i].to = 0; loan[i].lent = 0; loan[i].ack = 0
    :: else
    fi
  }
}

inline drop_backs(from, count) {
  for (i : 0 .. FLIGHT - 1) {
    if
    :: i >= from && i + (count) < backs ->
       back[i].inc = back[i + (count)].inc; back[i].sent = back[i + (count)].sent;
       back[i].linc = back[i + (count)].linc; back[i].term = back[i + (count)].term;
       back[i].gave = back[i + (count)].gave; back[i].dead = back[i + (count)].dead
    :: else
    fi
  }
  backs = backs - (count);
  for (i : 0 .. FLIGHT - 1) {
    if
    :: i >= backs ->
       back[i].inc = 0; back[i].sent = 0; back[i].linc = 0; back[i].term = 0;
       back[i].gave = 0; back[i].dead = false
    :: else
    fi
  }
}

/* SEND of the lender: acknowledges the newest record it processed, and remembers when that came. */
inline lender_sends() {
  if :: recovering == 0 && heardInc != 0 && to == heardInc -> ackedAge = heardAge :: else fi;
  loan[loans].inc = inc; loan[loans].term = term; loan[loans].to = to; loan[loans].lent = lent;
  loan[loans].ack = (recovering == 0 -> heardSent : NONE);
  loans++
}

inline borrower_sends() {
  back[backs].inc = binc; back[backs].sent = 0; back[backs].linc = ANSWER; back[backs].term = bterm;
  back[backs].gave = gave; back[backs].dead = dead;
  backs++
}

inline lender_hears() {
  heardInc = back[k].inc; heardSent = back[k].sent; heardAge = 0;
  answered = answered || back[k].linc >= inc;
#ifdef BUG_UNSCOPED
  if :: back[k].gave > returned -> returned = (back[k].gave < lent -> back[k].gave : lent) :: else fi;
#endif
  if
  :: back[k].linc == inc && back[k].term == term && back[k].inc == to ->
     if :: back[k].gave > returned -> returned = (back[k].gave < lent -> back[k].gave : lent) :: else fi;
     if :: back[k].dead && term < TERMS -> begin_term() :: else fi
  :: else
  fi;
  drop_backs(0, k + 1)
}

/* A later life of the lender: nothing of the former one is used any more. Of an earlier one nothing is believed. */
inline follow_life() {
#ifdef BUG_UNHEEDING
  if :: loan[k].inc > heardLinc -> heardLinc = loan[k].inc :: else fi
#else
  if
  :: loan[k].inc > linc -> linc = loan[k].inc; bterm = 0; blent = 0; gave = 0; left = NONE; dead = true
  :: else
  fi
#endif
}

inline borrower_hears() {
  follow_life();
  if
  :: loan[k].inc < linc
#ifdef BUG_UNADDRESSED
  :: loan[k].inc >= linc ->
#else
  :: loan[k].inc >= linc && loan[k].to == binc ->
#endif
     if
     :: loan[k].inc > linc || (loan[k].inc == linc && loan[k].term > bterm) ->
        linc = loan[k].inc; bterm = loan[k].term; blent = 0; gave = 0; left = NONE; dead = false
     :: else
     fi;
     if
     :: loan[k].inc == linc && loan[k].term == bterm ->
#ifdef BUG_DELTA
        if :: blent + loan[k].lent <= LENT -> blent = blent + loan[k].lent :: else fi;
#else
        if :: loan[k].lent > blent -> blent = loan[k].lent :: else fi;
#endif
        renew()
     :: else
     fi
  :: else
  fi;
  drop_loans(0, k + 1)
}

/* The lease runs from the own send that is acknowledged; a lapsed term is never revived. */
inline renew() {
  if
#ifdef BUG_REVIVE
  :: loan[k].ack != NONE ->
     dead = false;
#else
  :: loan[k].ack != NONE && !dead ->
#endif
#ifdef BUG_DATED_AT_RECEIPT
     left = LIFE
#else
     if :: left == NONE || left < LIFE - loan[k].ack -> left = LIFE - loan[k].ack :: else fi
#endif
  :: else
  fi
}

inline lends() {
  if
  :: to != heardInc -> begin_term(); to = heardInc
  :: else
  fi;
  lent++
}

/* A send of the borrower from before it crashed dates nothing any more. */
inline forget_sends() {
  heardSent = NONE;
  for (i : 0 .. FLIGHT - 1) {
    if :: i < loans -> loan[i].ack = NONE :: else fi;
    if :: i < backs -> back[i].sent = NONE :: else fi
  }
}

active proctype world() {
  do
  :: atomic {
    if
    :: d_step { tick(); skip }
    :: loans < FLIGHT -> d_step { lender_sends(); skip }
    :: backs < FLIGHT -> d_step { borrower_sends(); skip }
    :: loans > 0 -> select(k : 0 .. FLIGHT - 1);
       if :: k < loans -> d_step { borrower_hears(); skip } :: k < loans -> d_step { drop_loans(k, 1); skip } :: else fi
    :: backs > 0 -> select(k : 0 .. FLIGHT - 1);
       if :: k < backs -> d_step { lender_hears(); skip } :: k < backs -> d_step { drop_backs(k, 1); skip } :: else fi
    :: recovering == 0 && heardInc != 0 && OUT < POOL && lent < LENT && (to == heardInc || (OUT == 0 && term < TERMS)) ->
       d_step { lends(); skip }
    :: HELD > 0 -> gave++
    :: !dead && left != NONE && left <= SLACK -> d_step { dead = true; left = NONE }
    :: OUT > 0 && term < TERMS && (ackedAge == NONE || ackedAge >= RECLAIM_AFTER) -> d_step { begin_term(); skip }
    :: crashes < CRASHES -> d_step {
         crashes++; inc++; term = 0; to = 0; lent = 0; returned = 0; ackedAge = NONE;
         heardInc = 0; heardSent = NONE; heardAge = NONE; answered = false;
#ifndef BUG_NO_WAIT
         recovering = WAIT
#endif
       }
#ifdef BUG_UNANSWERED
    :: recovering > 0 -> recovering = 0
#else
    :: recovering > 0 && answered -> recovering = 0
#endif
    :: crashes < CRASHES -> d_step {
         crashes++; binc++; linc = 0; bterm = 0; blent = 0; gave = 0; left = NONE; dead = false;
         forget_sends();
         skip
       }
    :: crashes < CRASHES -> d_step {
         crashes++; heardInc = 0; heardSent = NONE; heardAge = NONE;
#ifdef BUG_RESTART_FORGETS
         ackedAge = NONE
#else
         ackedAge = 0
#endif
       }
    :: crashes < CRASHES -> d_step { crashes++; left = NONE; dead = true; forget_sends(); skip }
    fi;
#ifdef LTL
    holds = SUM_HOLDS && PAIR_HOLDS;
#else
    assert(SUM_HOLDS); assert(PAIR_HOLDS);
#endif
    i = 0; k = 0
  }
  od
}

#ifdef LTL
ltl within_pool { [] holds }
#endif
