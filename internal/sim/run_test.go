package sim
import ("testing";"fmt";"flag";"os";"time")
var from=flag.Int("from",0,"")
var seeds=flag.Int("seeds",1000,"")
var show=flag.Int("show",20,"")
func TestRun(t *testing.T){
 tl:=newTally(); bad:=0; kinds:=map[string]int{}
 st:=time.Now()
 for s:=*from;s<*from+*seeds;s++{
  r:=Play(NewPlan(uint64(s)),false)
  tl.Add(r.Tally)
  if len(r.Violations)>0{ bad++; kinds[string(r.Violations[0].Invariant)]++; if bad<=*show {fmt.Println(s, r.Plan.Honest, r.Trusted, r.Violations[0])}}
 }
 fmt.Println(bad,"bad of",*seeds,kinds, time.Since(st))
 fmt.Printf("%+v\n",*tl)
}

func TestShow(t *testing.T){
 r:=Play(NewPlan(uint64(*from)),true)
 r.Timeline(os.Stdout)
 for _,a:=range r.Plan.Actions{fmt.Printf("%+v\n",a)}
 p:=r.Plan; p.Actions=nil; fmt.Printf("%+v\n",p)
 for _,v:=range r.Violations{fmt.Println(v)}
}

func TestShrink(t *testing.T){
 p:=Shrink(NewPlan(uint64(*from)))
 r:=Play(p,true)
 r.Timeline(os.Stdout)
 for _,a:=range r.Plan.Actions{fmt.Printf("%+v\n",a)}
 p=r.Plan; p.Actions=nil; fmt.Printf("%+v\n",p)
 for _,v:=range r.Violations{fmt.Println(v)}
}
